"""Office: formats of office programs that markitdown does not read: OpenDocument and RTF."""
