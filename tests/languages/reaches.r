cat(readLines(url('http://plain.test/'), warn = FALSE), '\n', sep = '')
tryCatch(readLines(url('http://evil.test/')), error = function(e) cat('not evil\n'), warning = function(w) cat('not evil\n'))
