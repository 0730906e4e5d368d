import { expect, it } from "vitest";
import { readQuestion } from "./question-words.ts";

const services = ["checkout", "order-service", "order-worker", "payments"];

it.each([
  ["checkout", { service: "checkout", symptom: null, unknown: [] }],
  ["why is checkout slow?", { service: "checkout", symptom: "latency", unknown: [] }],
  ["payments errors", { service: "payments", symptom: "errors", unknown: [] }],
  ["Payment failing", { service: "payments", symptom: "errors", unknown: [] }],
  ["order slow", { service: null, symptom: "latency", unknown: ["order"] }],
  ["banana", { service: null, symptom: null, unknown: ["banana"] }],
])("readQuestion(%j)", (text, expected) => {
  expect(readQuestion(text, services)).toEqual(expected);
});
