"""What people see: results, progress bars, and the live views of hello, run and demo."""
