library(jsonlite)
cat(6 * 7, "北京", as.character(toJSON(c(3, 1))), "\n")
plot(1:3, main = "北京")
