"""cli: what makes a cold start quick: finding modules (`module_finder`)."""
