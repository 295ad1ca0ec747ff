// Several errors in one.
throw new AggregateError([new Error("one"), new TypeError("two")], "several");
