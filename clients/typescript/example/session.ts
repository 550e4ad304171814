// A stand-in for the application's own sessions. It returns claims that the application has verified.
export async function sessionOf(request: Request): Promise<Record<string, string>> {
  const [user, plan] = (request.headers.get("cookie")?.match(/session=(\w+:\w+)/)?.[1] ?? "").split(":");
  return user && plan ? { user, plan } : {};
}
