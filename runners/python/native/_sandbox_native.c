/* The native part of the Python driver: what takes the kernel or the interpreter at their word. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if PY_MAJOR_VERSION != 3 || PY_MINOR_VERSION != 13
#error "what an immortal object looks like was looked up for Python 3.13"
#endif

#define HUGE_PAGE ((size_t)2 << 20)
#define REGION ((size_t)128 << 20)
#define NOTHING Py_RETURN_NONE

/* Forks a process whose parent is our parent: 0 in it, 1 in the caller, -1 if there is none.
 *
 * A process gets another parent when its own ends. The one in between is made by vfork: it borrows our memory, so
 * that the address space, of which a copy takes milliseconds with pandas in it, is copied once and not twice. */
static int fork_away(void)
{
    int status;
    pid_t between = vfork();
    if (between == 0) {
        pid_t own = getpid(), child = fork();
        if (child == 0) {
            /* It has its parent before it says that it is there: PID 1 takes its word for no other process. */
            while (getppid() == own)
                sched_yield();
            return 0;
        }
        _exit(child < 0);
    }
    if (between < 0 || waitpid(between, &status, 0) != between || status != 0)
        return -1;
    return 1;
}

static PyObject *native_fork_away(PyObject *module, PyObject *unused)
{
    int side;
    PyOS_BeforeFork();
    side = fork_away();
    if (side == 0)
        PyOS_AfterFork_Child();
    else
        PyOS_AfterFork_Parent();
    if (side < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyBool_FromLong(side);
}

/* Takes the streams of the run, which PID 1 sends with one byte, in place of those of the driver, and tells it who has
 * them. */
static PyObject *native_take_streams(PyObject *module, PyObject *channel)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    char byte;
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    struct cmsghdr *header;
    int streams[2], length;
    char line[32];
    if (recvmsg((int)PyLong_AsLong(channel), &message, MSG_CMSG_CLOEXEC) != 1)
        return PyErr_SetFromErrno(PyExc_OSError);
    header = CMSG_FIRSTHDR(&message);
    if (header == NULL || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(streams)))
        return PyErr_Format(PyExc_OSError, "there are no streams");
    memcpy(streams, CMSG_DATA(header), sizeof(streams));
    for (int at = 0; at < 2; at++) {
        if (dup2(streams[at], at + 1) < 0)
            return PyErr_SetFromErrno(PyExc_OSError);
        close(streams[at]);
    }
    length = snprintf(line, sizeof(line), "taken %d\n", (int)getpid());
    if (write((int)PyLong_AsLong(channel), line, (size_t)length) != length)
        return PyErr_SetFromErrno(PyExc_OSError);
    NOTHING;
}

/* The other half of share_memory. Thread-local storage is the program's: nothing here may touch it. */
static int hold(void *unused)
{
    syscall(SYS_close_range, 0, ~0U, 0);
    for (;;)
        syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
    return 0;
}

/* The kernel takes memory apart before it tells anybody that a process has ended, unless another process has it too.
 * With one that holds it and does nothing, our end is told at once, and the milliseconds for the memory are taken
 * behind it, when the other one is killed. Only SIGKILL and SIGSTOP get to it.
 *
 * It has copies of our descriptors for a moment, which the program can find: call this when only the program's own are
 * left. */
static PyObject *native_share_memory(PyObject *module, PyObject *unused)
{
    static char stack[4096] __attribute__((aligned(16)));
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    /* Without it, everything works and takes longer. */
    (void)clone(hold, stack + sizeof(stack), CLONE_VM | CLONE_PARENT | SIGCHLD, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    NOTHING;
}

#define CATCH_UP_TRIES 200
#define CATCH_UP_PATIENCE 5

/* Waits, for a while, until what was written to one stream has been read: only then is it certain that what is written
 * to the other one comes after it. Whoever reads neither is not waited for again. */
static void catch_up(int number, int other)
{
    static int patience = CATCH_UP_PATIENCE;
    static const struct timespec moment = {0, 20000};
    struct stat own, there;
    int unread = 0;
    if (patience == 0 || ioctl(other, FIONREAD, &unread) != 0 || unread == 0)
        return;
    if (fstat(other, &there) != 0 || !S_ISFIFO(there.st_mode))
        return;
    if (fstat(number, &own) != 0 || own.st_ino == there.st_ino)
        return;
    Py_BEGIN_ALLOW_THREADS
    for (int try = 0; try < CATCH_UP_TRIES && unread != 0; try++) {
        nanosleep(&moment, NULL);
        if (ioctl(other, FIONREAD, &unread) != 0)
            break;
    }
    Py_END_ALLOW_THREADS
    patience = unread == 0 ? CATCH_UP_PATIENCE : patience - 1;
}

static PyObject *file_write; /* that of FileIO */

static PyObject *write_output(PyObject *self, PyObject *data)
{
    catch_up(1, 2);
    return PyObject_CallFunctionObjArgs(file_write, self, data, NULL);
}

static PyObject *write_error(PyObject *self, PyObject *data)
{
    catch_up(2, 1);
    return PyObject_CallFunctionObjArgs(file_write, self, data, NULL);
}

/* A kind of FileIO that writes like this, and otherwise is one in every respect. */
static PyObject *ordered_file(PyObject *file, PyCFunction write)
{
    PyMethodDef *methods = PyMem_Calloc(2, sizeof(PyMethodDef)); /* as long as the type, and so for ever */
    PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, NULL}};
    PyType_Spec spec = {"_io.FileIO", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
    PyMethodDef method = {"write", write, METH_O, NULL};
    if (methods == NULL)
        return PyErr_NoMemory();
    methods[0] = method;
    return PyType_FromSpecWithBases(&spec, file);
}

/* Returns the kinds of FileIO for standard output and error. */
static PyObject *native_ordered_files(PyObject *module, PyObject *file)
{
    PyObject *output, *error;
    file_write = PyObject_GetAttrString(file, "write");
    if (file_write == NULL)
        return NULL;
    output = ordered_file(file, write_output);
    error = output == NULL ? NULL : ordered_file(file, write_error);
    if (error == NULL)
        return NULL;
    return Py_BuildValue("NN", output, error);
}

static char *arenas, *arenas_end;

/* Python takes memory for its objects in arenas, wherever there is room. Side by side, huge pages can hold them. */
static void *arena_alloc(void *unused, size_t size)
{
    char *arena;
    if ((size_t)(arenas_end - arenas) < size) {
        char *region = mmap(NULL, REGION + HUGE_PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (region == MAP_FAILED)
            return NULL;
        arenas = (char *)(((uintptr_t)region + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
        arenas_end = arenas + REGION;
    }
    arena = arenas;
    arenas += size;
    return arena;
}

/* As Python itself gives them back, so that either may give back the other's. */
static void arena_free(void *unused, void *arena, size_t size)
{
    munmap(arena, size);
}

static PyObject *native_join_arenas(PyObject *module, PyObject *on)
{
    static PyObjectArenaAllocator python, ours = {NULL, arena_alloc, arena_free};
    if (PyObject_IsTrue(on)) {
        PyObject_GetArenaAllocator(&python);
        PyObject_SetArenaAllocator(&ours);
    } else {
        PyObject_SetArenaAllocator(&python);
        if (arenas_end > arenas)
            munmap(arenas, (size_t)(arenas_end - arenas));
        arenas = arenas_end = NULL;
    }
    NOTHING;
}

static void make_immortal(PyObject *object)
{
    if (object == NULL || object->ob_refcnt_split[PY_BIG_ENDIAN] == UINT32_MAX)
        return;
    object->ob_refcnt_split[PY_BIG_ENDIAN] = UINT32_MAX;
    /* These may hold others that the collector knows nothing of. */
    if (PyTuple_CheckExact(object)) {
        for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(object); at++)
            make_immortal(PyTuple_GET_ITEM(object, at));
    } else if (PyCode_Check(object)) {
        PyCodeObject *code = (PyCodeObject *)object;
        make_immortal(code->co_consts);
        make_immortal(code->co_names);
        make_immortal(code->co_localsplusnames);
        make_immortal(code->co_filename);
        make_immortal(code->co_name);
        make_immortal(code->co_qualname);
    }
}

static int visit(PyObject *object, void *unused)
{
    if (!PyFrame_Check(object))
        make_immortal(object);
    return 0;
}

/* Lets the given objects and what they hold live for ever (PEP 683): nobody counts references to them any more, and so
 * a forked process that only reads them writes to none of their pages. */
static PyObject *native_immortalize(PyObject *module, PyObject *objects)
{
    if (!PyList_CheckExact(objects))
        return PyErr_Format(PyExc_TypeError, "a list is needed");
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(objects); at++) {
        PyObject *object = PyList_GET_ITEM(objects, at);
        /* What is being executed ends some time. */
        if (PyFrame_Check(object) || PyGen_Check(object))
            continue;
        make_immortal(object);
        if (Py_TYPE(object)->tp_traverse != NULL)
            Py_TYPE(object)->tp_traverse(object, visit, NULL);
    }
    NOTHING;
}

/* Calls a function that trace functions, profilers and tools of sys.monitoring do not see. They are left as they are:
 * what the interpreter still does when a program has ended is theirs to see. */
static PyObject *native_call_unseen(PyObject *module, PyObject *function)
{
    PyThreadState *thread = PyThreadState_Get();
    PyObject *result;
    PyThreadState_EnterTracing(thread);
    result = PyObject_CallNoArgs(function);
    PyThreadState_LeaveTracing(thread);
    return result;
}

static PyMethodDef methods[] = {
    {"fork_away", native_fork_away, METH_NOARGS, "Fork a process whose parent is ours; true in this one."},
    {"share_memory", native_share_memory, METH_NOARGS, "Have the end of this process told before its memory is gone."},
    {"take_streams", native_take_streams, METH_O, "Take the streams of the run from a socket."},
    {"ordered_files", native_ordered_files, METH_O, "Files that let the other stream be read before they write."},
    {"join_arenas", native_join_arenas, METH_O, "Whether memory for objects is taken from one place."},
    {"immortalize", native_immortalize, METH_O, "Let a list of objects live for ever, and what they hold."},
    {"call_unseen", native_call_unseen, METH_O, "Call a function that nothing which traces the program sees."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_sandbox_native", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__sandbox_native(void)
{
    return PyModule_Create(&definition);
}
