/** Whether a text begins with this word, in any case, and it ends there: `select 1` begins with SELECT, the name `a.example` not with A. */
export function beginsWithWord(text: string, word: string): boolean {
  return word !== "" && text.toUpperCase().startsWith(word.toUpperCase()) && !/^[\w.-]/.test(text.slice(word.length));
}
