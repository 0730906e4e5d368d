/** How far a certificate's start lies before its issue, milliseconds: a clock that is stepped back must not lock anyone out. */
export const backdateMs = 86_400_000;
