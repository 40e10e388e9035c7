package millrace.streams.cli;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import millrace.engine.CudaConfig;
import picocli.CommandLine.Option;

/// The device of benches that may run on the backend `cuda`.
final class BenchDevice {
    private static final String DRIVER = "engine.cuda.driver";
    private static final String DEVICE = "engine.cuda.device";

    @Option(names = "-D", paramLabel = "KEY=VALUE",
            description = DRIVER + " or " + DEVICE + ", for the backend cuda. Repeatable.")
    Map<String, String> settings = new LinkedHashMap<>();

    /// @param options for the refusal of a setting that cannot be
    CudaConfig cuda(BenchOptions options) {
        for (String key : settings.keySet()) {
            if (!key.equals(DRIVER) && !key.equals(DEVICE)) {
                throw options.wrong("-D " + key + ": expected " + DRIVER + " or " + DEVICE + ", got an unknown key");
            }
        }
        List<String> device = List.of(settings.getOrDefault(DEVICE, "0"));
        try {
            return CudaConfig.of(settings.getOrDefault(DRIVER, CudaConfig.SYSTEM.driver().id()))
                    .withDevice(options.numbers("-D " + DEVICE, device, 0, 255).getFirst());
        } catch (IllegalArgumentException e) {
            throw options.wrong("-D " + DRIVER + ": " + e.getMessage());
        }
    }
}
