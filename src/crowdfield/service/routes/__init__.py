"""HTTP: one file a noun. Routes parse, ask the service, and answer; nothing is computed here."""
