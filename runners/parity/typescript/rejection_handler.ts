// A handler for rejections.
process.on("unhandledRejection", (reason) => {
  console.log("unhandled:", (reason as Error).message);
});
Promise.reject(new Error("r"));
