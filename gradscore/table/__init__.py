"""The Parquet score table: its columns, its atomic parts, its reading."""
