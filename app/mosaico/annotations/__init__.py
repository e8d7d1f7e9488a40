"""What people judge of single answers: right, partly or wrong, with queues of what to judge and how far people agree."""
