/** `GET /users/{id}`; a normalised statement already starts with its verb. */
export function routeText(method: string, route: string): string {
  if (route === "") return method;
  return method === "" || beginsWithWord(route, method) ? route : `${method} ${route}`;
}

/**
 * Whether a text starts with this whole word, case-insensitive: `select 1` starts with SELECT, the name `a.example` does not start with A.
 */
export function beginsWithWord(text: string, word: string): boolean {
  return word !== "" && text.toUpperCase().startsWith(word.toUpperCase()) && !/^[\w.-]/.test(text.slice(word.length));
}
