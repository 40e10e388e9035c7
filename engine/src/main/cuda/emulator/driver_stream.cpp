// Streams, events and graphs: lists of work.
#include "driver.h"

#include <chrono>
#include <set>

namespace cudasim {

namespace {

struct Graph {
    std::vector<Work> work;
};

struct Stream {
    std::vector<Work> work;
    std::unique_ptr<Graph> capture;
    int* forbids = nullptr; // where the capture is counted
    bool broken = false; // the capture holds what it may not
};

struct Event {
    double at = 0;
    bool recorded = false, done = true;
};

Stream standard;
std::set<Stream*> streams{&standard};
std::set<Event*> events;
std::set<Graph*> graphs;

enum CaptureMode { GLOBAL, THREAD_LOCAL, RELAXED };

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Null, the legacy and the per-thread handle name the default stream.
Stream* find(void* handle) {
    if (reinterpret_cast<uintptr_t>(handle) <= 2) {
        return &standard;
    }
    auto found = streams.find(static_cast<Stream*>(handle));
    return found == streams.end() ? nullptr : *found;
}

CUresult noStream() { return refuse(CUDA_ERROR_INVALID_HANDLE, "no stream of this library"); }

CUresult drain(Stream* s) {
    while (!s->work.empty()) {
        std::vector<Work> work;
        work.swap(s->work);
        for (const Work& w : work) {
            if (CUresult result = driver.sticky ? driver.sticky : w()) {
                driver.sticky = result;
            }
        }
    }
    return driver.sticky;
}

std::unique_ptr<Graph> endCapture(Stream* s) {
    if (s->forbids) {
        --*s->forbids;
        s->forbids = nullptr;
    }
    return std::move(s->capture);
}

CUresult refuseCapturing(Stream* s, const char* call) {
    if (!s->capture) {
        return CUDA_SUCCESS;
    }
    s->broken = true;
    return refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, std::string(call) + " is not permitted on a stream that captures");
}

} // namespace

CUresult enqueue(void* stream, Work work) {
    Stream* s = find(stream);
    if (!s) {
        return noStream();
    }
    if (s->capture) {
        s->capture->work.push_back(std::move(work));
        return CUDA_SUCCESS;
    }
    s->work.push_back(std::move(work));
    return options.lazy ? CUDA_SUCCESS : drain(s);
}

CUresult drain(void* stream) {
    Stream* s = find(stream);
    return s ? drain(s) : noStream();
}

CUresult drainAll() {
    for (Stream* s : std::vector<Stream*>(streams.begin(), streams.end())) {
        drain(s);
    }
    return driver.sticky;
}

void forgetStreams() {
    for (Stream* s : streams) {
        endCapture(s);
        if (s != &standard) {
            delete s;
        }
    }
    streams = {&standard};
    standard.work.clear();
    for (Event* e : events) {
        delete e;
    }
    events.clear();
    for (Graph* g : graphs) {
        delete g;
    }
    graphs.clear();
}

// ------------------------------------------------------------------------------------------------ streams

CUDASIM_API CUresult cuStreamCreate(void** stream, unsigned) {
    CUDASIM_ENTER_UNCAPTURED("cuStreamCreate");
    Stream* s = new Stream();
    streams.insert(s);
    *stream = s;
    return CUDA_SUCCESS;
}
CUDASIM_API CUresult cuStreamCreateWithPriority(void** stream, unsigned flags, int) { return cuStreamCreate(stream, flags); }

CUDASIM_API CUresult cuStreamDestroy_v2(void* stream) {
    CUDASIM_ENTER;
    Stream* s = find(stream);
    if (!s || s == &standard) {
        return noStream();
    }
    drain(s);
    endCapture(s);
    streams.erase(s);
    delete s;
    return driver.sticky;
}

CUDASIM_API CUresult cuStreamSynchronize(void* stream) {
    CUDASIM_ENTER;
    Stream* s = find(stream);
    if (!s) {
        return noStream();
    }
    CUresult refused = refuseCapturing(s, "cuStreamSynchronize");
    return refused ? refused : drain(s);
}

CUDASIM_API CUresult cuStreamQuery(void* stream) {
    CUDASIM_ENTER;
    Stream* s = find(stream);
    if (!s) {
        return noStream();
    }
    if (CUresult refused = refuseCapturing(s, "cuStreamQuery")) {
        return refused;
    }
    bool empty = s->work.empty();
    CUresult result = drain(s); // asked again and again it must end
    return result ? result : empty ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUDASIM_API CUresult cuStreamWaitEvent(void* stream, void* event, unsigned) {
    CUDASIM_ENTER;
    Event* e = static_cast<Event*>(event);
    if (!events.count(e)) {
        return refuse(CUDA_ERROR_INVALID_HANDLE, "cuStreamWaitEvent: no event of this library");
    }
    Stream* own = find(stream);
    return enqueue(stream, [=] {
        for (Stream* s : std::vector<Stream*>(streams.begin(), streams.end())) {
            if (!e->done && s != own) {
                drain(s);
            }
        }
        return CUDA_SUCCESS;
    });
}

CUDASIM_API CUresult cuLaunchHostFunc(void* stream, void (*function)(void*), void* argument) {
    CUDASIM_ENTER;
    return enqueue(stream, [=] {
        function(argument);
        return CUDA_SUCCESS;
    });
}

// ------------------------------------------------------------------------------------------------ events

CUDASIM_API CUresult cuEventCreate(void** event, unsigned) {
    CUDASIM_ENTER;
    Event* e = new Event();
    events.insert(e);
    *event = e;
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuEventDestroy_v2(void* event) {
    CUDASIM_ENTER;
    Event* e = static_cast<Event*>(event);
    if (!events.count(e)) {
        return refuse(CUDA_ERROR_INVALID_HANDLE, "cuEventDestroy: no event of this library");
    }
    CUresult result = drainAll();
    events.erase(e);
    delete e;
    return result;
}

CUDASIM_API CUresult cuEventRecord(void* event, void* stream) {
    CUDASIM_ENTER;
    Event* e = static_cast<Event*>(event);
    if (!events.count(e)) {
        return refuse(CUDA_ERROR_INVALID_HANDLE, "cuEventRecord: no event of this library");
    }
    e->recorded = true;
    e->done = false;
    return enqueue(stream, [e] {
        e->at = now();
        e->done = true;
        return CUDA_SUCCESS;
    });
}

CUDASIM_API CUresult cuEventSynchronize(void* event) {
    CUDASIM_ENTER_UNCAPTURED("cuEventSynchronize");
    return static_cast<Event*>(event)->done ? driver.sticky : drainAll();
}

CUDASIM_API CUresult cuEventQuery(void* event) {
    CUDASIM_ENTER_UNCAPTURED("cuEventQuery");
    bool done = static_cast<Event*>(event)->done;
    CUresult result = done ? CUDA_SUCCESS : drainAll();
    return result ? result : done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUDASIM_API CUresult cuEventElapsedTime(float* milliseconds, void* from, void* to) {
    CUDASIM_ENTER;
    Event *a = static_cast<Event*>(from), *b = static_cast<Event*>(to);
    if (!a->recorded || !b->recorded) {
        return refuse(CUDA_ERROR_INVALID_HANDLE, "cuEventElapsedTime: an event was not recorded");
    }
    if (!a->done || !b->done) {
        return CUDA_ERROR_NOT_READY;
    }
    *milliseconds = static_cast<float>((b->at - a->at) * 1e3);
    return CUDA_SUCCESS;
}
CUDASIM_API CUresult cuEventElapsedTime_v2(float* milliseconds, void* from, void* to) { return cuEventElapsedTime(milliseconds, from, to); }

// ------------------------------------------------------------------------------------------------ graphs

CUDASIM_API CUresult cuStreamBeginCapture_v2(void* stream, int mode) {
    CUDASIM_ENTER;
    Stream* s = find(stream);
    if (!s || s == &standard) {
        return refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuStreamBeginCapture: the default stream cannot capture");
    }
    if (s->capture) {
        return refuse(CUDA_ERROR_INVALID_VALUE, "cuStreamBeginCapture: the stream captures already");
    }
    s->capture = std::make_unique<Graph>();
    s->broken = false;
    s->forbids = mode == GLOBAL ? &driver.capturing : mode == THREAD_LOCAL ? &own.capturing : nullptr;
    if (s->forbids) {
        ++*s->forbids;
    }
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuStreamEndCapture(void* stream, void** graph) {
    CUDASIM_ENTER;
    Stream* s = find(stream);
    if (!s || !s->capture) {
        return refuse(CUDA_ERROR_INVALID_VALUE, "cuStreamEndCapture: the stream does not capture");
    }
    std::unique_ptr<Graph> captured = endCapture(s);
    if (s->broken) {
        *graph = nullptr;
        return refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "cuStreamEndCapture: a call that was not permitted ended the capture");
    }
    graphs.insert(captured.get());
    *graph = captured.release();
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuStreamIsCapturing(void* stream, int* status) {
    CUDASIM_ENTER;
    Stream* s = find(stream);
    *status = s && s->capture ? s->broken ? 2 : 1 : 0;
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
    CUDASIM_ENTER;
    Graph* g = static_cast<Graph*>(graph);
    if (!graphs.count(g)) {
        return refuse(CUDA_ERROR_INVALID_VALUE, "cuGraphInstantiate: no graph of this library");
    }
    Graph* copy = new Graph(*g);
    graphs.insert(copy);
    *executable = copy;
    return CUDA_SUCCESS;
}
CUDASIM_API CUresult cuGraphInstantiate_v2(void** executable, void* graph, void*, char*, size_t) {
    return cuGraphInstantiateWithFlags(executable, graph, 0);
}

CUDASIM_API CUresult cuGraphLaunch(void* executable, void* stream) {
    CUDASIM_ENTER;
    Graph* g = static_cast<Graph*>(executable);
    if (!graphs.count(g)) {
        return refuse(CUDA_ERROR_INVALID_VALUE, "cuGraphLaunch: no graph of this library");
    }
    for (const Work& w : g->work) {
        if (CUresult result = enqueue(stream, w)) {
            return result;
        }
    }
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuGraphUpload(void*, void*) { return entry(); }

CUDASIM_API CUresult cuGraphGetNodes(void* graph, void** nodes, size_t* count) {
    CUDASIM_ENTER;
    Graph* g = static_cast<Graph*>(graph);
    for (size_t i = 0; nodes && i < *count && i < g->work.size(); i++) {
        nodes[i] = &g->work[i];
    }
    *count = g->work.size();
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuGraphDestroy(void* graph) {
    Lock lock(driver.mutex);
    Graph* g = static_cast<Graph*>(graph);
    if (!graphs.erase(g)) {
        return refuse(CUDA_ERROR_INVALID_VALUE, "cuGraphDestroy: no graph of this library");
    }
    delete g;
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuGraphExecDestroy(void* executable) {
    Lock lock(driver.mutex);
    drainAll();
    return cuGraphDestroy(executable);
}

} // namespace cudasim
