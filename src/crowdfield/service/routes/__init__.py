"""HTTP routes, one file per resource. They parse, call the service and answer; nothing is computed here."""
