"""What a person sees: the command line, the reports, the Textual app."""
