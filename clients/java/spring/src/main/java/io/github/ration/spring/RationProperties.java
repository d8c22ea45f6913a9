// SPDX-License-Identifier: Apache-2.0
// The properties `ration.*`.

package io.github.ration.spring;

import java.time.Duration;
import java.util.List;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.boot.context.properties.bind.Name;

/**
 * What is not set has the default of {@code RationClient.Builder}.
 *
 * @param enabled whether requests are limited; if not, there is no client and no filter
 * @param url ration://[[name]:token@]host[:port], rations:// by TLS, unix:/path
 * @param policy what decides without rationd: allow, refuse, or a local limit such as 100 per second
 * @param deadline of each call
 * @param connections at most, each shared by many requests
 * @param token for operations that need rights
 * @param failures in a row that open the breaker
 * @param silence deadlines of silence after which a connection that owes replies is closed
 * @param probeFirst the least time between probes
 * @param probeMost the longest time between probes
 * @param localKey the first attribute of these that is there is the key of the local limit
 * @param waitInLine {@code ration.wait}: so long a request may stand in line
 * @param order of the filter: before Spring Security; after it, 0, the filter sees the user
 */
@ConfigurationProperties("ration")
public record RationProperties(@DefaultValue("true") boolean enabled, String url, String policy, Duration deadline, Integer connections,
        String token, Integer failures, Integer silence, Duration probeFirst, Duration probeMost, List<String> localKey,
        @Name("wait") Duration waitInLine, @DefaultValue("-110") int order) {}
