/** Finds a known service and a symptom in the words of a question. */

export interface Question {
  service: string | null;
  symptom: "latency" | "errors" | null;
  /** Words that are neither. */
  unknown: string[];
}

const latencyWords = /^(?:slow(?:er|ly|ness)?|latency|latencies|timeouts?|hang(?:s|ing)?|p9[059]|duration|lag(?:gy|s)?)$/i;
const errorWords = /^(?:err(?:or)?s?|fail(?:s|ed|ing|ures?)?|5xx|50\d|exceptions?|broken|down|availability|unavailable|crash(?:es|ing)?)$/i;
const plainWords =
  /^(?:why|is|are|the|a|an|what|what's|whats|wrong|with|so|our|in|of|for|to|and|service|requests?|calls?|responses?|high|it|on|at|we|do|does|did|get|gets|getting|has|have|see|seeing)$/i;

export function readQuestion(text: string, services: readonly string[]): Question {
  const exact = services.find((service) => service.toLowerCase() === text.trim().toLowerCase());
  if (exact !== undefined) return { service: exact, symptom: null, unknown: [] };
  const words = text.split(/[\s,;?!"]+/).filter((word) => word !== "");
  const question: Question = { service: null, symptom: null, unknown: [] };
  for (const word of words) {
    const service = serviceOf(word, services);
    if (latencyWords.test(word)) question.symptom ??= "latency";
    else if (errorWords.test(word)) question.symptom ??= "errors";
    else if (service !== undefined) question.service ??= service;
    else if (!plainWords.test(word)) question.unknown.push(word);
  }
  return question;
}

/** The exact name, or the only name that contains the word. */
function serviceOf(word: string, services: readonly string[]): string | undefined {
  const wanted = word.toLowerCase();
  const same = services.find((service) => service.toLowerCase() === wanted);
  if (same !== undefined || wanted.length < 3) return same;
  const near = services.filter((service) => service.toLowerCase().includes(wanted));
  return near.length === 1 ? near[0] : undefined;
}
