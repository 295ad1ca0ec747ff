// An error class of the program, with more fields.
class Failure extends Error {
  constructor(
    message: string,
    readonly detail: { code: number; tags: string[] },
  ) {
    super(message);
    this.name = "Failure";
  }
}

throw new Failure("it failed", { code: 42, tags: ["a", "b"] });
