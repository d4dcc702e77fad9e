"""The command line: read options, call one function, print."""
