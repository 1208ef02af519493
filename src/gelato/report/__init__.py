"""One offline page about a run: what it says (contents) and how it looks (page)."""
