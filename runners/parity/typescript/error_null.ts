// Even nothing.
throw null;
