// A stand-in for the application's own sessions: what it has verified about who is asking.
export async function sessionOf(request: Request): Promise<Record<string, string>> {
  const [user, plan] = (request.headers.get("cookie")?.match(/session=(\w+:\w+)/)?.[1] ?? "").split(":");
  return user && plan ? { user, plan } : {};
}
