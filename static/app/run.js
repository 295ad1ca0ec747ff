// One run from its request to its outcome, through whatever happens to the connection meanwhile.

import { callTool, Refused, Unreachable } from "./api.js";
import { withToken } from "./token.js";

/** Seconds that one question for a run that outlived its call waits. */
const WAIT = 30;
/** Pauses before asking again after the connection was lost, in milliseconds. */
const PAUSES = [500, 1000, 2000, 4000];
/** How long a stop waits for the id of the run. */
const PATIENCE = 3000;

const pause = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

export class Run {
  /** Its id, as soon as the server has told it. */
  id = null;
  #known = Promise.withResolvers();
  #abort = new AbortController();
  #output;
  #next = 0;
  #total = 0;
  #missed = false;

  /** Everything that is printed goes to `output`. */
  constructor(output) {
    this.#output = output;
  }

  /** Runs a program to its end and gives its outcome. */
  async execute(request) {
    let outcome;
    try {
      outcome = await this.#call("run_code", request);
    } catch (error) {
      if (!(error instanceof Unreachable) || !this.id) throw error;
      outcome = await this.ask();
    }
    return this.#toItsEnd(outcome);
  }

  /** Asks how the run stands after the connection was lost. */
  async ask() {
    for (const milliseconds of [...PAUSES, null]) {
      try {
        return await this.#toItsEnd(await this.#call("get_run", { runId: this.id, waitSeconds: WAIT }));
      } catch (error) {
        if (!(error instanceof Unreachable) || milliseconds === null) throw error;
        await pause(milliseconds);
      }
    }
    throw new Unreachable("The server does not answer.");
  }

  /** Ends the run. Its outcome comes from `execute`. */
  async stop() {
    await Promise.race([this.#known.promise, pause(PATIENCE)]);
    if (!this.id) {
      // The server ends a run whose caller goes away.
      this.#abort.abort();
      return;
    }
    await withToken((token) => callTool(token, "cancel_run", { runId: this.id }));
  }

  async #toItsEnd(first) {
    let outcome = first;
    while (outcome.status === "running") {
      outcome = await this.#call("get_run", { runId: outcome.runId, waitSeconds: WAIT });
    }
    this.id = outcome.runId || this.id;
    if (this.#missed) {
      // It printed faster than it could be followed: now there is time for all of it.
      this.#output.clear();
      this.#next = 0;
      this.#missed = false;
    }
    for (let before = -1; this.#next < this.#total && this.#next > before;) {
      before = this.#next;
      await this.#call("get_run", { runId: this.id });
    }
    return outcome;
  }

  #call(tool, args) {
    const onOutput = (told) => this.#take(told);
    const { signal } = this.#abort;
    return withToken((token) => callTool(token, tool, args, { onOutput, offset: this.#next, signal }));
  }

  #take({ runId, offset, nextOffset, total, pieces }) {
    this.id = runId;
    this.#known.resolve();
    this.#total = total;
    // Of an answer that was lost the same may come twice.
    if (offset < this.#next) return;
    if (offset > this.#next) this.#missed = true;
    this.#next = nextOffset;
    for (const { stream, text } of pieces) this.#output.push(stream, text);
  }
}

/** Whether it may help to do the same again. */
export const isPassing = (error) => error instanceof Unreachable || error instanceof Refused && ["busy", "session_busy", "install_busy"].includes(error.code);
