// SPDX-License-Identifier: Apache-2.0
// Makes the client of the properties, and the filter that asks it about every request.

package io.github.ration.spring;

import io.github.ration.client.RationClient;
import io.github.ration.servlet.RationFilter;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.context.properties.PropertyMapper;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.context.annotation.Bean;

/** For web applications with servlets. A client or a filter of the application's own takes the place of these. */
@AutoConfiguration
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
@ConditionalOnProperty(name = "ration.enabled", matchIfMissing = true)
@EnableConfigurationProperties(RationProperties.class)
public class RationAutoConfiguration {
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    RationClient rationClient(RationProperties properties, ObjectProvider<RationClientCustomizer> customizers) {
        RationClient.Builder settings = RationClient.builder();
        PropertyMapper set = PropertyMapper.get().alwaysApplyingWhenNonNull();
        set.from(properties::url).to(settings::url);
        set.from(properties::policy).to(settings::policy);
        set.from(properties::deadline).to(settings::deadline);
        set.from(properties::connections).to(settings::connections);
        set.from(properties::token).to(settings::token);
        set.from(properties::failures).to(settings::failures);
        set.from(properties::silence).to(settings::silence);
        set.from(properties::probeFirst).to(settings::probeFirst);
        set.from(properties::probeMost).to(settings::probeMost);
        set.from(properties::localKey).as(names -> names.toArray(String[]::new)).to(settings::localKey);
        customizers.orderedStream().forEach(customizer -> customizer.customize(settings));
        return settings.build();
    }

    @Bean
    @ConditionalOnMissingBean
    RationRequests rationRequests() {
        return new RationRequests() {};
    }

    @Bean
    @ConditionalOnMissingBean(parameterizedContainer = FilterRegistrationBean.class)
    FilterRegistrationBean<RationFilter> rationFilter(RationClient limiter, RationRequests requests, RationProperties properties) {
        RationFilter filter = new RationFilter(limiter)
                .attributes(requests::attributes).skip(requests::skip).waitInLine(properties.waitInLine());
        FilterRegistrationBean<RationFilter> registration = new FilterRegistrationBean<>(filter);
        registration.setName("ration");
        registration.setOrder(properties.order());
        return registration;
    }
}
