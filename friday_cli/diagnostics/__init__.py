"""What Friday reports about itself: doctor, selftest, log file."""
