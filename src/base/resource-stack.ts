/**
 * Owns resources and closes them last in, first out. Node 20 has no AsyncDisposableStack; this one keeps closing after a failure
 * and then throws the first error, so that one stuck resource does not leak the others.
 */
export class ResourceStack implements AsyncDisposable {
  #closers: (() => void | Promise<void>)[] = [];
  #closed: Promise<void> | undefined;

  /** Builds something from several resources. If a part fails, the opened ones are closed. Closing the result closes the stack. */
  static async assemble<T extends AsyncDisposable>(build: (stack: ResourceStack) => Promise<T>): Promise<T> {
    const stack = new ResourceStack();
    try {
      return await build(stack);
    } catch (error) {
      await stack[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Takes ownership and returns the resource. */
  use<T extends AsyncDisposable | Disposable>(resource: T): T {
    this.defer(
      () => (Symbol.asyncDispose in resource ? resource[Symbol.asyncDispose]() : resource[Symbol.dispose]()) as void | Promise<void>,
    );
    return resource;
  }

  defer(close: () => void | Promise<void>): void {
    if (this.#closed) throw new Error("Cannot add a resource: the stack is closed");
    this.#closers.push(close);
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closed ??= this.#closeAll();
    return this.#closed;
  }

  async #closeAll(): Promise<void> {
    const errors: unknown[] = [];
    for (const close of this.#closers.reverse()) {
      try {
        await close();
      } catch (error) {
        errors.push(error);
      }
    }
    this.#closers = [];
    if (errors.length > 0) throw errors[0];
  }
}
