module.exports = { name: "common" };
