"""The story of a schedule or run, in sentences, and the verdict."""
