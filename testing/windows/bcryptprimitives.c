/* Wine 8 has no bcryptprimitives.dll, from which Rust's std imports ProcessPrng; advapi32 exports RtlGenRandom as
   SystemFunction036. Since std loads this library before a program's own code runs, it also loads the stand-in for
   processmodel.dll then, which redirects the program's imports. A library in the middle of being loaded should load
   no other; here the other needs nothing but kernel32, ntdll and ws2_32, which are there. */
#include <windows.h>

BOOLEAN WINAPI SystemFunction036(PVOID, ULONG);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T len)
{
    while (len) {
        ULONG n = len > 0x10000 ? 0x10000 : (ULONG)len;
        if (!SystemFunction036(data, n)) return FALSE;
        data += n;
        len -= n;
    }
    return TRUE;
}

BOOL WINAPI DllMainCRTStartup(HINSTANCE instance, DWORD reason, LPVOID reserved)
{
    if (reason == DLL_PROCESS_ATTACH)
        LoadLibraryExW(L"processmodel.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    return TRUE;
}
