// SPDX-License-Identifier: Apache-2.0
// clients/scenarios.yaml with the client, and its requests with each framework.

package io.github.ration.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

class ScenariosTest {
    private static final List<Map<String, Object>> ALL = Scenario.list(Scenario.TABLE.get("scenarios"));

    @Test
    void namesAreUnique() {
        assertEquals(ALL.size(), ALL.stream().map(scenario -> scenario.get("name")).distinct().count());
        assertTrue(ALL.size() >= 40);
    }

    @TestFactory
    Stream<DynamicTest> client() {
        return tests("client", null);
    }

    @TestFactory
    Stream<DynamicTest> servlet() {
        return tests("servlet", Sites.ALL.get("servlet"));
    }

    @TestFactory
    Stream<DynamicTest> spring() {
        return tests("spring", Sites.ALL.get("spring"));
    }

    private static Stream<DynamicTest> tests(String who, Sites.Maker framework) {
        return ALL.stream().filter(scenario -> hasRequests(scenario) == (framework != null))
                .map(scenario -> DynamicTest.dynamicTest(who + ": " + scenario.get("name"), () -> Scenario.run(scenario, framework)));
    }

    private static boolean hasRequests(Map<String, Object> scenario) {
        return scenario.containsKey("steps") && Scenario.list(scenario.get("steps")).stream().anyMatch(step -> step.containsKey("request"));
    }
}
