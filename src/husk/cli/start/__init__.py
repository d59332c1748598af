"""cli: what makes a cold start quick: finding modules (`module_finder`), and building while importing (`begin_run`)."""
