"""Pure parsers and thin readers of file systems and mount tables."""
