// One run from its request to its outcome. The server ends a run whose call breaks off before it was answered; one that
// outlived its call goes on whatever happens to the connection. Either way the server is asked what became of it.

import { callTool, Refused, TooMany, Unreachable } from "./api.js";
import { withToken } from "./token.js";

/** Seconds that one question for a run that outlived its call waits. */
const WAIT = 30;
/** Pauses before asking again after the connection was lost, in milliseconds. */
const PAUSES = [500, 1000, 2000, 4000];
/** How long a stop waits for the id of the run. */
const PATIENCE = 3000;

/** Codes of answers that are not about the run. Any other one says that it did not begin. */
const TELL_NOTHING = ["no_json", "protocol", "run_not_found"];

/** What the server says of every run that was cancelled, before what became of its kernel. */
const CANCELLED = "The run was cancelled before its end.";
/** Why it did that with a run that nobody stopped here. */
const LOST = "The connection was lost, and the server ended the run.";
const LEFT = "The page was reloaded, and the server ended the run.";

const pause = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

export class Run {
  /** Its id, as soon as the server has told it. There is none any more when the server says that it did not begin. */
  id = null;
  /** When it began. */
  since = Date.now();
  #known = Promise.withResolvers();
  #abort = new AbortController();
  #output;
  #next = 0;
  #total = 0;
  #missed = false;
  #stopped = false;
  /** Why it was cancelled, if it was and nobody stopped it here. */
  #reason = null;

  /** Everything that is printed goes to `output`. `before` is the run that went on when the page was left. */
  constructor(output, before = null) {
    this.#output = output;
    if (!before) return;
    this.since = before.since;
    this.#reason = LEFT;
    this.#named(before.id);
  }

  /** Resolves as soon as it has an id. */
  get begun() {
    return this.#known.promise;
  }

  /** Runs a program to its end and gives its outcome. */
  async execute(request) {
    let outcome;
    try {
      outcome = await this.#call("run_code", request);
    } catch (error) {
      if (!this.id || pauseAfter(error, 0) === null) throw error;
      this.#reason = LOST;
      return this.ask();
    }
    return this.#toItsEnd(outcome);
  }

  /** Asks how the run stands after the connection was lost, and follows it to its end. */
  async ask() {
    return this.#toItsEnd(await this.#state({ waitSeconds: WAIT }));
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
    await Promise.race([this.#known.promise, pause(PATIENCE)]);
    if (!this.id) {
      // The server ends a run whose caller goes away.
      this.#abort.abort();
      return;
    }
    try {
      await withToken((token) => callTool(token, "cancel_run", { runId: this.id }));
    } catch (error) {
      this.#stopped = false;
      throw error;
    }
  }

  async #toItsEnd(first) {
    let outcome = first;
    this.#named(outcome.runId || this.id);
    while (outcome.status === "running") {
      // It goes on whatever happened to the connection, and ends for another reason.
      this.#reason = null;
      outcome = await this.#state({ waitSeconds: WAIT });
    }
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
    this.#output.end();
    return outcome.status === "cancelled" ? { ...outcome, hint: this.#why(outcome) } : outcome;
  }

  /** Whoever stopped it here knows why it ended, and not what became of its kernel. */
  #why({ hint }) {
    if (!this.#stopped && !this.#reason) return hint;
    const rest = hint.replace(CANCELLED, "").trim();
    return [!this.#stopped && this.#reason, rest].filter(Boolean).join(" ") || null;
  }

  #named(id) {
    this.id = id;
    this.#known.resolve();
  }

  async #call(tool, args) {
    const onOutput = (told) => this.#take(told);
    const { signal } = this.#abort;
    try {
      return await withToken((token) => callTool(token, tool, args, { onOutput, offset: this.#next, signal }));
    } catch (error) {
      // It has an id while it waits for its turn, and may be turned away then.
      if (error instanceof Refused && !TELL_NOTHING.includes(error.code)) this.id = null;
      throw error;
    }
  }

  #take({ runId, offset, nextOffset, total, pieces }) {
    this.#named(runId);
    this.#total = total;
    // Of an answer that was lost the same may come twice.
    if (offset < this.#next) return;
    if (offset > this.#next) this.#missed = true;
    this.#next = nextOffset;
    for (const { stream, text } of pieces) this.#output.push(stream, text);
  }
}

/** The milliseconds after which to ask again for a run that goes on meanwhile, or nothing where that is no use. */
function pauseAfter(error, failures) {
  // However many there are too many, that passes.
  if (error instanceof TooMany) return Math.max(error.seconds * 1000, PAUSES[failures] ?? PAUSES.at(-1));
  return error instanceof Unreachable ? PAUSES[failures] ?? null : null;
}
