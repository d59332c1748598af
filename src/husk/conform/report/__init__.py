"""conform/report: documents from records: Markdown, JUnit XML and the HTML report."""
