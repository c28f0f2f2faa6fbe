"""What ``make bench`` measures, side by side with what a user would otherwise run. It reports and asserts nothing."""
