/** Notices that a value is no longer what was told, once it has stayed the same for a while: what comes and goes is not worth telling. */
export class SteadyChange {
  readonly #holdMs: number;
  #told: string | undefined;
  #now: string | undefined;
  #sinceMs = 0;

  constructor(holdMs: number) {
    this.#holdMs = holdMs;
  }

  /** The value has just been told. */
  tell(value: string): void {
    this.#told = value;
  }

  /** Whether it is time to tell anew. Never before the first time. */
  isDue(value: string, nowMs: number): boolean {
    if (value !== this.#now) {
      this.#now = value;
      this.#sinceMs = nowMs;
    }
    return this.#told !== undefined && value !== this.#told && nowMs - this.#sinceMs >= this.#holdMs;
  }
}
