package millrace.engine.kernel.cuda;

import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import jcuda.JCudaVersion;
import jcuda.LibUtils;
import jcuda.driver.JCudaDriver;
import millrace.engine.BackendException;
import millrace.engine.CudaConfig;
import millrace.engine.kernel.PrivateFile;
import org.jspecify.annotations.Nullable;

/// The three libraries behind the backend, and the order and places they are loaded from.
///
/// First the driver: the system's `libcuda.so.1`, or the stand-in of the jar, which has that name inside. The dynamic
/// linker knows libraries by this name, so that JCuda's library, which asks for it, gets the one that is there. Then
/// JCuda's own.
///
/// JCuda left alone looks for its library on `java.library.path`, and then takes whatever file lies under a fixed name in
/// the directory for temporary files, where on a shared machine anybody may have put it. Here the library of the jar is
/// checked against its digest and unpacked where only this user can write, see [PrivateFile]; it is opened from there; and
/// while the class of JCuda is initialized, its "directory for temporary files" is that folder. JCuda reads the property
/// `java.io.tmpdir` at that moment and the JDK's own methods read it once at their first use, before. So it needs no flags,
/// and finds a file that was verified and is already open.
final class CudaLibraries {
    /// What the stand-in exports and no driver does.
    static final String STANDIN_MARK = "millrace_cuda_standin";

    /// Its function that tells the last failure in words.
    static final String STANDIN_MESSAGE = "millrace_cudasim_message";

    private static final String STANDIN = "libcuda-standin.so";
    private static final String DRIVER = "libcuda.so.1";
    private static final String TEMPORARY = "java.io.tmpdir";

    /// Where drivers lie that the dynamic linker was not told of, as in containers.
    private static final List<String> PLACES =
            List.of("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib");

    /// SHA-256 of JCuda's library for the driver API, of the version in the pom.
    private static final String JCUDA_SHA256 = "fdc3b4b4fca4f0fab54ff12c0b4d6ad1c5e8d55015b4950834c705e5db301255";

    private static final AtomicReference<CudaConfig.@Nullable Driver> LOADED = new AtomicReference<>();

    private CudaLibraries() {}

    /// Opens a driver for the probe.
    ///
    /// @throws BackendException `CUDA_PLATFORM`, `CUDA_NO_DRIVER` or `CUDA_NO_STANDIN`
    static DriverCalls driver(CudaConfig.Driver driver) {
        String platform = System.getProperty("os.name") + " on " + System.getProperty("os.arch");
        if (!platform.equals("Linux on amd64")) {
            throw CudaProbe.refused(
                    "CUDA_PLATFORM", "expected Linux on amd64, got " + platform, "set engine.backend to auto");
        }
        CudaConfig.Driver loaded = LOADED.get();
        if (loaded != null && loaded != driver) {
            throw CudaProbe.mixed(driver);
        }
        return driver == CudaConfig.Driver.SYSTEM ? system() : standin();
    }

    private static DriverCalls system() {
        List<String> problems = new ArrayList<>();
        try {
            return DriverCalls.of(byName());
        } catch (IllegalArgumentException e) {
            problems.add(String.valueOf(e.getMessage()));
        }
        for (String place : PLACES) {
            Path file = Path.of(place, DRIVER);
            if (Files.isRegularFile(file)) {
                try {
                    return DriverCalls.of(lookup(file));
                } catch (IllegalArgumentException e) {
                    problems.add(file + ": " + e.getMessage());
                }
            }
        }
        throw CudaProbe.refused(
                "CUDA_NO_DRIVER",
                "expected " + DRIVER + ", the driver's library, got none: " + String.join(", ", problems),
                "install the driver of the device, or name its folder in LD_LIBRARY_PATH, or " + CudaProbe.INSTEAD);
    }

    @SuppressWarnings("restricted")
    private static SymbolLookup byName() {
        return SymbolLookup.libraryLookup(DRIVER, Arena.global());
    }

    @SuppressWarnings("restricted")
    private static SymbolLookup lookup(Path file) {
        return SymbolLookup.libraryLookup(file, Arena.global());
    }

    private static DriverCalls standin() {
        byte[] library = resource(STANDIN);
        if (library == null) {
            throw CudaProbe.refused(
                    "CUDA_NO_STANDIN",
                    "engine.cuda.driver: expected " + STANDIN + " in the jar, got none: it was built without g++",
                    "install g++ and build again, or set engine.cuda.driver to system");
        }
        return open(library, STANDIN, file -> DriverCalls.of(lookup(file)));
    }

    /// Makes JCuda ready. Once for a process: it can have one driver.
    ///
    /// @throws BackendException `CUDA_DRIVER_MIXED`, or `CUDA_BINDING` if JCuda's library cannot be had
    static void load(CudaConfig.Driver driver) {
        synchronized (LOADED) {
            CudaConfig.Driver loaded = LOADED.get();
            if (loaded == null) {
                loadJCuda();
                LOADED.set(driver);
            } else if (loaded != driver) {
                throw CudaProbe.mixed(driver);
            }
        }
    }

    /// Functions that JCuda's library asks the driver for and that it has not.
    static List<String> missing(CudaConfig.Driver driver) {
        DriverCalls calls = driver(driver);
        byte[] library = resource("lib/" + jcuda());
        return library == null ? List.of() : DriverImports.of(library).stream().filter(name -> !calls.has(name)).toList();
    }

    private static String jcuda() {
        return LibUtils.createLibraryFileName(LibUtils.createPlatformLibraryName("JCudaDriver-" + JCudaVersion.get()));
    }

    private static void loadJCuda() {
        String name = jcuda();
        byte[] library = resource("lib/" + name);
        String digest = library == null ? "none" : PrivateFile.sha256(library);
        if (library == null || !digest.equals(JCUDA_SHA256)) {
            throw CudaProbe.refused(
                    "CUDA_BINDING",
                    "expected " + name + " in the jar with SHA-256 " + JCUDA_SHA256 + ", got " + digest,
                    "build again, or set engine.backend to auto");
        }
        open(library, name, file -> {
            load(file);
            String temporary = System.getProperty(TEMPORARY);
            System.setProperty(TEMPORARY, String.valueOf(file.getParent()));
            try {
                // The first use of the class; results are checked here, not by JCuda.
                JCudaDriver.setExceptionsEnabled(false);
            } finally {
                System.setProperty(TEMPORARY, temporary);
            }
            return name;
        });
    }

    /// By this class, which has JCuda's class loader: a library belongs to the loader of its first caller.
    @SuppressWarnings("restricted")
    private static void load(Path file) {
        System.load(file.toString());
    }

    private interface Opening<T> {
        T open(Path file) throws IOException;
    }

    /// Opens a library of the jar from where only this user can write.
    private static <T> T open(byte[] library, String name, Opening<T> opening) {
        List<String> problems = new ArrayList<>();
        try {
            return opening.open(PrivateFile.kept(library, name, PrivateFile.userCache()).path());
        } catch (IOException | IllegalArgumentException | LinkageError e) {
            problems.add(PrivateFile.place(library, name, PrivateFile.userCache()) + ": " + e.getMessage());
        }
        try (PrivateFile file = PrivateFile.temporary(library, name, Path.of(System.getProperty(TEMPORARY)))) {
            return opening.open(file.path());
        } catch (IOException | IllegalArgumentException | LinkageError e) {
            problems.add(System.getProperty(TEMPORARY) + ": " + e.getMessage());
        }
        throw CudaProbe.refused(
                "CUDA_BINDING",
                name + ": expected a place to open it from, got none: " + String.join(", ", problems),
                "make the directory " + PrivateFile.userCache() + " writable and executable");
    }

    /// A resource of this package, or null.
    static byte @Nullable [] resource(String name) {
        try (InputStream in = CudaLibraries.class.getResourceAsStream(name)) {
            return in == null ? null : in.readAllBytes();
        } catch (IOException e) {
            throw CudaProbe.refused(
                    "CUDA_BINDING", name + ": expected to read it from the jar, got " + e.getMessage(), "build again");
        }
    }
}
