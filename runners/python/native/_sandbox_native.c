/* The native part of the Python driver: what takes the kernel or the interpreter at their word. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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
        pid_t child = fork();
        if (child == 0)
            return 0;
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

/* The other half of share_memory. Thread-local storage is the program's: nothing here may touch it. */
static int hold(void *unused)
{
    syscall(SYS_close_range, 3, ~0U, 0);
    for (;;)
        syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
    return 0;
}

/* The kernel takes memory apart before it tells anybody that a process has ended, unless another process has it too.
 * With one that holds it and does nothing, our end is told at once, and the milliseconds for the memory are taken
 * behind it, when the other one is killed. Only SIGKILL and SIGSTOP get to it. */
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
