/* A shared library that is no plug-in. */
int nothing_to_see(void);
int nothing_to_see(void) { return 0; }
