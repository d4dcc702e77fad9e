"""The steps of one scoring run, each a file; `gradscore.pipeline` puts them in order."""
