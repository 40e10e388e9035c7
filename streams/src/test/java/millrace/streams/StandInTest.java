package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Map;
import millrace.engine.BackendException;
import millrace.engine.Device;
import millrace.streams.console.Health;
import millrace.streams.console.HttpDoor;
import org.junit.jupiter.api.Test;

/// Nobody takes the stand-in for a device by accident.
class StandInTest {
    @Test
    void aServiceRefusesItUnlessItIsAllowed() {
        Map<String, String> asked = Map.of("engine.backend", "cuda", "engine.cuda.driver", "standin");
        assertThatThrownBy(() -> StandIn.requireAllowed(ServiceConfig.of(asked)))
                .isInstanceOfSatisfying(BackendException.class, e -> assertThat(e.code()).isEqualTo("CUDA_STANDIN_REFUSED"))
                .hasMessage("engine.cuda.driver: expected system for a service, got standin, which is no device and runs kernels on"
                        + " the processor for development; set engine.cuda.driver to system, or engine.backend to auto, or"
                        + " engine.cuda.standin.allowed=true if this is meant");
        ServiceConfig allowed = ServiceConfig.of(asked).with(Map.of("engine.cuda.standin.allowed", "true"));
        assertThatCode(() -> StandIn.requireAllowed(allowed)).doesNotThrowAnyException();
        ServiceConfig system = ServiceConfig.of(Map.of("engine.backend", "cuda"));
        assertThatCode(() -> StandIn.requireAllowed(system)).doesNotThrowAnyException();
        ServiceConfig auto = ServiceConfig.of(Map.of("engine.cuda.driver", "standin"));
        assertThatCode(() -> StandIn.requireAllowed(auto)).as("auto never takes it").doesNotThrowAnyException();
    }

    @Test
    void saysWhatItIsAtTheStart() {
        assertThat(StandIn.banner(new Device("GPU", "9.0", "12.8", "", false))).isEmpty();
        assertThat(StandIn.banner(Device.PROCESSOR)).isEmpty();
        assertThat(StandIn.banner(new Device("Stand-in", "9.0", "12.8", "", true)))
                .anyMatch(line -> line.contains("THIS IS NO GPU: Stand-in"));
    }

    @Test
    void readinessCarriesWhatAChecksDataSay() throws Exception {
        var state = new Health(Map.of("service", true), Map.of("engine", true), Map.of("started", true),
                Map.of("engine", Map.of("device", "a \"b\\c\"\n")));
        var meters = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
        new ServiceMetrics(meters).fact("millrace.engine.device.info", "name", "Some GPU", "standin", "true");
        try (HttpDoor server = HttpDoor.start("127.0.0.1", 0, () -> state, meters, null); HttpClient http = HttpClient.newHttpClient()) {
            JsonNode ready = new ObjectMapper().readTree(get(http, server, "/health/ready"));
            assertThat(ready.at("/checks/0/data/device").asText()).isEqualTo("a \"b\\c\"?");
            assertThat(get(http, server, "/health/live"))
                    .isEqualTo("{\"status\":\"UP\",\"checks\":[{\"name\":\"service\",\"status\":\"UP\"}]}");
            assertThat(get(http, server, "/metrics"))
                    .contains("millrace_engine_device_info{name=\"Some GPU\",standin=\"true\"} 1");
        }
    }

    private static String get(HttpClient http, HttpDoor server, String path) throws Exception {
        URI at = URI.create("http://127.0.0.1:" + server.port() + path);
        return http.send(HttpRequest.newBuilder(at).build(), HttpResponse.BodyHandlers.ofString()).body();
    }
}
