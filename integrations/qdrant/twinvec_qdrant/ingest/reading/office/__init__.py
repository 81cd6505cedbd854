"""Office: OpenDocument and RTF files, and what Office archives, compound files and tracked changes need."""
