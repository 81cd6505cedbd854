"""How documents are cut into chunks: text, Markdown, source code, pages of a PDF, and the sentences around a chunk."""
