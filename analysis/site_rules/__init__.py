"""Rules of the site's own: one TOML file each, an expression over the report's fields and series.

See docs/site-rules.md. :mod:`.grammar` parses into a :mod:`.tree`, :mod:`.names` lists what can be
named, :mod:`.units` keeps units apart, :mod:`.evaluate` gives the value, :mod:`.rule_file` and
:mod:`.folder` read files, :mod:`.judge` answers, :mod:`.trial` tries a rule out.
"""
