import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Tests with daemons first, because they mostly wait; CPU-bound tests then use the time while the last daemons run. */
const projects = ["e2e", "integration", "unit-process", "unit", "privileged"];

/** Orders test files by project; within a project as vitest does, long ones first. */
export class TestOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.sort((left, right) => projects.indexOf(left.project.name) - projects.indexOf(right.project.name));
  }
}
