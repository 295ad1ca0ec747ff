print(6 * 7, "北京", require("cjson").encode({ 3, 1 }))
