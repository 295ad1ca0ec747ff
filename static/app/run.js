// One run from its request to its outcome. The page makes up its id, and the server lets a run go on that its caller has
// named: what becomes of the call or of the page is no reason to end it. Whoever lost it asks for it by that id.

import { callTool, Refused, TooMany, Unreachable } from "./api.js";
import { size } from "./text.js";
import { withToken } from "./token.js";

/** Seconds that one question for a run that outlived its call waits. */
const WAIT = 30;
/** Pauses before asking again after the connection was lost, in milliseconds. */
const PAUSES = [500, 1000, 2000, 4000];
/** How long a stop waits for the run to begin. */
const PATIENCE = 3000;

/** Codes of answers that are not about the run. Any other one says that it did not begin. */
const TELL_NOTHING = ["no_json", "protocol", "run_not_found"];

/** What became of the kernel of a run that was stopped, for whoever stopped it and so knows why it ended. */
const KERNEL_ENDED = "The kernel has ended: its variables are lost, and the next stateful run begins with a new one.";
const KERNEL_LIVES = "The kernel and its variables live on.";

const pause = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

// As the server makes them.
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `run_${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

export class Run {
  /** What the server knows it by. */
  id = newId();
  /** When it was asked for. */
  since = Date.now();
  /** Whether the server has it: nobody can know before it has said so. */
  hasBegun = null;
  #began = Promise.withResolvers();
  #onBegin;
  #abort = new AbortController();
  #output;
  #next = 0;
  #total = 0;
  #missed = false;
  /** How an output ended that is longer than what the server keeps, and how much is missing before that. */
  #tail = null;
  #stopped = false;

  /**
   * Everything that is printed goes to `output`, and `onBegin` is called before the first of it. `before` is the run
   * that went on when the page was left.
   */
  constructor(output, onBegin, before = null) {
    this.#output = output;
    this.#onBegin = onBegin;
    if (!before) return;
    this.id = before.id;
    this.since = before.since;
    this.#begins();
  }

  /** Runs a program to its end and gives its outcome. */
  async execute(request) {
    let outcome;
    try {
      outcome = await this.#call("run_code", request, { runId: this.id });
    } catch (error) {
      if (this.hasBegun === false || error.name === "AbortError") throw error;
      return await this.#afterLoss(error);
    }
    return this.#toItsEnd(outcome);
  }

  /** Asks how the run stands after the connection was lost, and follows it to its end. */
  async ask() {
    return this.#toItsEnd(await this.#state({ waitSeconds: WAIT }));
  }

  /** Whether the server has it after all, as far as it answers. */
  async isThere() {
    await this.#call("get_run", { runId: this.id }).catch(() => {});
    return this.hasBegun === true;
  }

  /** The outcome of a run whose call broke off with an error. If it never began, that is why. */
  async #afterLoss(error) {
    try {
      // Who could not even send it need not wait until the server is back.
      if (error.isUnsent) await this.#call("get_run", { runId: this.id });
      return await this.ask();
    } catch (later) {
      if (this.hasBegun) throw later;
      if (later.code === "run_not_found") this.hasBegun = false;
      throw this.hasBegun === false && later.code !== "run_not_found" ? later : error;
    }
  }

  /** Asks for the run, and again for as long as that may help. */
  async #state(args) {
    for (let failures = 0; ; failures += 1) {
      try {
        return await this.#call("get_run", { runId: this.id, ...args });
      } catch (error) {
        const milliseconds = pauseAfter(error, failures);
        if (milliseconds === null) throw error;
        await pause(milliseconds);
      }
    }
  }

  /** Ends the run. Its outcome comes from `execute`. */
  async stop() {
    this.#stopped = true;
    await Promise.race([this.#began.promise, pause(PATIENCE)]);
    try {
      await withToken((token) => callTool(token, "cancel_run", { runId: this.id }));
    } catch (error) {
      if (this.hasBegun || error.code !== "run_not_found") {
        this.#stopped = false;
        throw error;
      }
      // Its request is still on its way.
      this.#abort.abort();
    }
  }

  async #toItsEnd(first) {
    let outcome = first;
    while (outcome.status === "running") outcome = await this.#state({ waitSeconds: WAIT });
    if (this.#missed) {
      // It printed faster than it could be followed: now there is time for all of it.
      this.#output.clear();
      this.#next = 0;
      this.#missed = false;
    }
    for (let before = -1; this.#next < this.#total && this.#next > before;) {
      before = this.#next;
      await this.#state();
    }
    if (this.#tail?.leftOut) this.#output.gap(`${size(this.#tail.leftOut)} were left out here.`);
    this.#push(this.#tail?.tail ?? []);
    this.#output.end();
    return outcome.status === "cancelled" && this.#stopped ? { ...outcome, hint: kernelOf(outcome) } : outcome;
  }

  #begins() {
    if (this.hasBegun) return;
    this.hasBegun = true;
    this.#began.resolve();
    this.#onBegin();
  }

  async #call(tool, args, how = {}) {
    const onOutput = (told) => this.#take(told);
    const { signal } = this.#abort;
    try {
      const outcome = await withToken((token) => callTool(token, tool, args, { onOutput, offset: this.#next, signal, ...how }));
      this.#begins();
      return outcome;
    } catch (error) {
      // It is known while it waits for its turn, and may be turned away then.
      if (error instanceof Refused && !TELL_NOTHING.includes(error.code)) this.hasBegun = false;
      if (error instanceof TooMany && tool === "run_code") this.hasBegun ??= false;
      throw error;
    }
  }

  #take({ offset, nextOffset, total, pieces, leftOut, tail }) {
    this.#begins();
    if (tail) this.#tail = { leftOut, tail };
    this.#total = total;
    // Of an answer that was lost the same may come twice.
    if (offset < this.#next) return;
    if (offset > this.#next) this.#missed = true;
    this.#next = nextOffset;
    this.#push(pieces);
  }

  #push(pieces) {
    for (const { stream, text } of pieces) this.#output.push(stream, text);
  }
}

function kernelOf({ kernelAlive }) {
  if (kernelAlive === undefined) return null;
  return kernelAlive ? KERNEL_LIVES : KERNEL_ENDED;
}

/** The milliseconds after which to ask again for a run that goes on meanwhile, or nothing where that is no use. */
function pauseAfter(error, failures) {
  // However many there are too many, that passes.
  if (error instanceof TooMany) return Math.max(error.seconds * 1000, PAUSES[failures] ?? PAUSES.at(-1));
  return error instanceof Unreachable ? PAUSES[failures] ?? null : null;
}
