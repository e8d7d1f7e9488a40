"""Reports of a run in every format, rendered from one view of the run (`view.RunReportView`)."""
