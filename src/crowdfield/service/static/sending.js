// Sends the reports in the queue one by one. A report gets its id when it is made and is sent again unchanged until the
// service has acknowledged it, so it is stored once however often it is sent.

import { keyName, post, Refused } from "./api.js";

const RETRY = 15000; // milliseconds between attempts while something waits
const LOCK = "crowdfield-field-sending";

export class Sender {
  // onChange() is called when an entry has changed, onReach(reached) after each attempt to reach the service.
  constructor(queue, { onChange, onReach }) {
    Object.assign(this, { queue, onChange, onReach });
    this.blocked = null; // "key" while the service refuses the key
    addEventListener("online", () => this.send());
    addEventListener("offline", () => onReach(false));
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.send(); });
    setInterval(() => this.send(), RETRY);
  }

  // Two tabs of one phone must not send the same report at once.
  async send() {
    if (!navigator.locks) return this.sendAll();
    return navigator.locks.request(LOCK, { ifAvailable: true }, (lock) => (lock ? this.sendAll() : undefined));
  }

  async sendAll() {
    const waiting = (await this.queue.reports()).filter((entry) => entry.state === "waiting");
    for (const entry of waiting) {
      if (!keyName()) return this.stop("key");
      // Ids belong to a key: under another one the same report could be stored twice.
      if (entry.key && entry.key !== keyName()) continue;
      if (!(await this.sendOne(entry))) return undefined;
    }
    return undefined;
  }

  async sendOne(entry) {
    const unsure = entry.unsure;
    // Stored before sending: the report may arrive even if the answer is lost.
    Object.assign(entry, { key: keyName(), unsure: true });
    await this.queue.put(entry);
    this.sending = entry.id;
    this.onChange();
    try {
      await post(`/situations/${encodeURIComponent(entry.situation)}/reports`, entry.report);
      entry.state = "sent";
      this.blocked = null;
    } catch (error) {
      const certain = error instanceof Refused;
      if (!certain && !(error instanceof TypeError)) throw error;
      this.onReach(certain);
      if (!certain || error.status === 429 || error.status >= 500) return this.stop(null);
      if (error.status === 401 || error.status === 403) {
        // If no earlier attempt can have stored it, another key may send it.
        if (!unsure) Object.assign(entry, { key: null, unsure: false });
        await this.queue.put(entry);
        return this.stop("key");
      }
      entry.state = "refused";
      entry.reason = error.problem.faults?.[0]?.what ?? error.message;
    } finally {
      this.sending = null;
    }
    this.onReach(true);
    await this.queue.put(entry);
    this.onChange();
    return true;
  }

  stop(why) {
    this.blocked = why;
    this.onChange();
    return false;
  }
}
