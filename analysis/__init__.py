"""From a job store to a verdict; reads the store only."""
